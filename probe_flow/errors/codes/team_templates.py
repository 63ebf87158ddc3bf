"""Codes of templates that installed packages bring (PF74xx)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF7401",
        "several templates have one name",
        "Two installed packages bring a template of the same name, one package brings two (`-` and `_` count as the "
        "same), or a package brings one that is called like a template of probe_flow. Ours cannot be replaced: the "
        "plain name means ours, with this warning. Between packages it means nothing, which is an error.",
        "`nightly` can be several templates, brought by the package `acme-probe` and the package `vision-probe`",
        "Write the name with its package, `template:acme-probe/nightly`, as `probe-flow templates` shows it.",
    ),
    Code(
        "PF7402",
        "a package announces templates that are not there",
        "The entry point `probe_flow.templates` of an installed package names a package without a folder, a folder "
        "without workflows, or no package at all. Often the files were left out of its wheel.",
        "the templates of the package `acme-probe` cannot be found: there is no `*.yaml` in `acme_probe/workflows`",
        "Update or remove the package. In one of your own the value is the dotted name of the package that holds the "
        'files, such as `acme = "acme_probe.workflows"`, and the files are package data.',
    ),
    Code(
        "PF7403",
        "a template of a package cannot be read",
        "The file is no UTF-8 text, no YAML, or cannot be opened.",
        "the template `nightly` of the package `acme-probe` cannot be read: the workflow file is empty",
        "Update or remove the package; `probe-flow validate FILE` shows every mistake of a file of your own.",
    ),
)
