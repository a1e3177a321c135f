"""Mechanisms, samplers, filters, guarantees."""
