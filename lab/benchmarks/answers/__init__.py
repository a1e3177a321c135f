"""How good what comes out is."""
