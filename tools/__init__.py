"""Programs for who works on this repository; nothing of it is in the wheel."""
