"""What the guarantee rests on: audits, sensitivities, concurrent spenders."""
