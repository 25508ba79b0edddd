"""Targets of an export, one module each: functions of the portable model, imported when they are needed."""
