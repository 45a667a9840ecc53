"""The machines: lowering, kernel schedules, code generation, compiling and calling."""
