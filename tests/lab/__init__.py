"""Tests of the package `lab`: audits, comparisons, printed tables, benchmarks and training."""
