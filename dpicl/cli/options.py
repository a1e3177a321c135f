"""Options that several commands take."""

MANY = "several values parted by commas"
PERIOD = "Release anew for this period, as 2026-12 or once; what the contract and the time say if left out."


def split_values(text: str) -> list[str]:
    """The values of an option that takes several."""
    return [part.strip() for part in text.split(",") if part.strip()]
