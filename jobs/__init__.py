"""Jobs, schedules, sensors and backfills over the assets."""
