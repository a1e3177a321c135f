"""Doorways: load by reference, call the library once, store, log counts. Retries live here."""
