"""Which loops: schedules, their choice and tuning."""
