"""Results for CI systems: JUnit, annotations, Markdown."""
