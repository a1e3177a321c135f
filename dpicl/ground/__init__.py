"""Opening files of records safely: below the data folder, bounded, CSV as text."""
