"""Which two offline dumps can be compared, and which rule files belong to them.

============  ============  =====================================  ====================================
target        golden        with rule files                        without
============  ============  =====================================  ====================================
device        arrays        the model's; a quantised model against  guessed by names, order and shapes
                            the original one: also (or only) that
                            of the quantisation tool
device        device        the model's, and that of the golden     by name
                            model without fusion
arrays        arrays        of the quantisation tool, when only     by name
                            the target is quantised
============  ============  =====================================  ====================================

Nothing else can be compared: arrays against a device dump, a quantised golden against a target that is not.
"""

from __future__ import annotations

from msgspec import Struct

from probe_flow.errors import Diagnostic, UsageError
from probe_flow.records import Catalog, Framework
from probe_flow.records.frameworks import NPY, OM


class Given(Struct, frozen=True):
    """Which rule files there are."""

    fusion: bool = False
    close: bool = False
    quant: bool = False

    @property
    def any(self) -> bool:
        """Whether there is one that leads from target to golden."""
        return self.fusion or self.quant


def check_scenario(target: Catalog, golden: Catalog, given: Given, *, quantised: bool | None = None) -> None:
    """Refuse sides and rule files that do not belong together.

    Args:
        target, golden: both dumps.
        given: the rule files.
        quantised: whether the target is quantised; None = what its reader found.

    Raises:
        UsageError: PF4401 if a side is no offline dump, PF4402 if the sides or the files do not fit.
    """
    for catalog in (target, golden):
        if catalog.framework != OM and not catalog.framework.is_arrays:
            raise _unknown_side(catalog)
    quant = (bool(target.attrs.get("is_quantised")) if quantised is None else quantised, _is_quantised(golden))
    kinds = _kind(target), _kind(golden)
    trouble = _impossible(kinds, quant) or _superfluous(kinds, quant, given)
    if trouble is not None:
        message, hint = trouble
        raise UsageError(Diagnostic("PF4402", message, help=hint, notes=_marks(target, golden)))


def _kind(catalog: Catalog) -> Framework:
    return NPY if catalog.framework.is_arrays else catalog.framework


def _is_quantised(catalog: Catalog) -> bool:
    return bool(catalog.attrs.get("is_quantised"))


def _impossible(kinds: tuple[Framework, Framework], quant: tuple[bool, bool]) -> tuple[str, str] | None:
    if kinds == (NPY, OM):
        return "arrays cannot be compared with a device dump", "swap `target` and `golden`"
    if quant == (False, True):
        return (
            "the golden is the dump of a quantised model, the target is not",
            "swap the sides, or say `quantised: false` on the dump stage of the golden if its names mislead",
        )
    if kinds == (OM, OM) and quant[0] != quant[1]:
        return (
            "the target is a quantised model, the golden device dump is not: their operators have other values",
            "compare it with the arrays of the original model, or say `quantised: false` if the names mislead",
        )
    return None


def _superfluous(kinds: tuple[Framework, Framework], quant: tuple[bool, bool], given: Given) -> tuple[str, str] | None:
    if given.close and kinds != (OM, OM):
        return "`close_fusion_rule` is for two device dumps, but the golden holds arrays", "leave it out"
    if given.close and not given.fusion:
        return (
            "`close_fusion_rule` alone does not say what the target's operators were made of",
            "give `fusion_rule` of the target's model too, or neither: then operators are compared by name",
        )
    if given.quant and quant != (True, False):
        who = "the target is not quantised" if not quant[0] else "the golden is quantised too"
        return f"`quant_fusion_rule` is given, but {who}", "leave it out, or say `quantised: true` if the names mislead"
    if given.fusion and kinds == (NPY, NPY):
        return (
            "`fusion_rule` says what operators of a device are made of, but the target holds arrays",
            "give the file of the quantisation tool as `quant_fusion_rule`, or no file",
        )
    return None


def _marks(target: Catalog, golden: Catalog) -> tuple[str, ...]:
    found = []
    for catalog in (target, golden):
        names = catalog.attrs.get("quantised_names")
        if isinstance(names, tuple) and names:
            shown = ", ".join(f"`{name}`" for name in names)
            found.append(f"names that show that `{catalog.side}` is quantised: {shown}")
    return tuple(found)


def _unknown_side(catalog: Catalog) -> UsageError:
    given = f"`{catalog.side}` is a `{catalog.framework.name}` dump"
    return UsageError(
        Diagnostic(
            "PF4401",
            f"`match.fusion_rule` needs dumps of offline models, but {given}",
            help="read device dumps with `dump.om` and arrays of the original model with `dump.npy` or `dump.tfdbg`",
        )
    )
