"""Options that several commands take."""

MANY = "comma-separated"
PERIOD = "Make a new release for this period, such as 2026-12 or once. Default: the contract's current period."


def split_values(text: str) -> list[str]:
    """The values of an option that takes several."""
    return [part.strip() for part in text.split(",") if part.strip()]
