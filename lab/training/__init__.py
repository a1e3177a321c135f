"""How the bundled model is made: synthetic tables, their prompts, a tokenizer, training, and what
is shipped.

    python -m lab.training --preset cpu --out FOLDER [--minutes N]

The tasks are synthetic and public throughout. No row, column name or category of an
evaluation set takes part, in training or in choosing between models.
"""
