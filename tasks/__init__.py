"""What Prefect runs: the stages of a run as tasks with retries, and what its pages show."""
