"""What a release costs: events, guarantees, composition and amplification."""
