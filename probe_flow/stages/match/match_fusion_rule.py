"""`match.fusion_rule`: pair the dump of an offline model with that of the original model, by its fusion rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec.structs import replace
from pydantic import Field, model_validator

from probe_flow.errors import FormatError, UsageError
from probe_flow.stages.base import CatalogOf, IsPath, Kind, Model, StageType
from probe_flow.stages.match.match_options import MatchOptions
from probe_flow.work import Context

if TYPE_CHECKING:
    from probe_flow.matching.offline.match_offline import Select
    from probe_flow.matching.offline.models import RuleBook
    from probe_flow.records import Catalog, Pairs

RulePath = Annotated[str, IsPath()]


class RuleSelect(Model):
    """Narrow the comparison to operators with some ids of the rule file, and all that is fused with one of them.

    Give one of the two.
    """

    range: str | None = Field(
        None,
        description="`start,end,step`: ids from start to end (-1: the last one), every step-th and both ends.",
        examples=["1,-1,10"],
    )
    ids: list[int] | None = Field(None, description="Ids to compare.", examples=[[4, 5]])

    @model_validator(mode="after")
    def _one_of_both(self) -> RuleSelect:
        if (self.range is None) == (self.ids is None):
            raise ValueError("give either `range` or `ids`")
        return self


class Options(MatchOptions):
    """Pair device tensors with the original tensors that the fusion rules say they are; without rules, by name."""

    uses: Literal["match.fusion_rule"]
    target: CatalogOf = Field(description="Stage that read the device dump, or the arrays of a quantised model.")
    golden: CatalogOf = Field(
        description="Stage that read the arrays of the original model, or the dump of another offline model."
    )
    fusion_rule: RulePath | None = Field(
        None,
        description="Fusion rules of the target's model: the text of its graph (`ge_proto_*_Build.txt`), the JSON that "
        "ATC makes of it, the `.om` itself, or a folder of such files for several models, chosen by the names of their "
        "graphs. Default: none; tensors are matched by "
        "name.",
    )
    close_fusion_rule: RulePath | None = Field(
        None, description="The same of the golden's model, built without fusion, where the golden is a device dump too."
    )
    quant_fusion_rule: RulePath | None = Field(
        None,
        description="Rules of the quantisation tool (AMCT), where the target is quantised and the golden is not.",
    )
    quantised: bool | None = Field(
        None, description="Whether the target is quantised; default: told by the names of its operators."
    )
    select: RuleSelect | None = Field(None, description="Compare some operators only; needs rules. Default: all.")

    @model_validator(mode="after")
    def _select_needs_rules(self) -> Options:
        if self.select is not None and self.fusion_rule is None and self.quant_fusion_rule is None:
            raise ValueError("`select` needs `fusion_rule`: ids are those of the rule file")
        return self


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the pairs."""
    from probe_flow.dumps.device_folders.debug_runs import not_compared
    from probe_flow.matching.offline.match_offline import match_offline

    def match(target: Catalog, golden: Catalog, **more: Any) -> Pairs:
        pairs = match_offline(
            target, golden, _book(options), select=_select(options.select), quantised=options.quantised, **more
        )
        used = (target.root, golden.root, options.fusion_rule, options.close_fusion_rule)
        others = not_compared(path for path in used if path is not None)
        return replace(pairs, problems=(*pairs.problems, *others))

    return options.matched(match, inputs)


def _book(options: Options) -> RuleBook:
    """Read the rules; a file that holds none is a mistake in the workflow, like a mapping that cannot be read."""
    from probe_flow.dumps.rules.rule_file import read_rule_file, read_rule_files
    from probe_flow.matching.offline.models import RuleBook

    try:
        files, is_folder = read_rule_files(options.fusion_rule) if options.fusion_rule is not None else ((), False)
        close = read_rule_files(options.close_fusion_rule)[0] if options.close_fusion_rule is not None else ()
        quant = None if options.quant_fusion_rule is None else read_rule_file(options.quant_fusion_rule)
    except FormatError as error:
        raise UsageError(error.diagnostic) from error
    return RuleBook(files, is_folder, close, quant)


def _select(select: RuleSelect | None) -> Select | None:
    from probe_flow.matching.offline.by_ids import selected_by_ids, selected_by_range

    if select is None:
        return None
    if select.range is not None:
        return partial(selected_by_range, text=select.range)
    return partial(selected_by_ids, ids=select.ids or [])


STAGE = StageType(
    uses="match.fusion_rule",
    produces=Kind.PAIRS,
    options=Options,
    run=run,
    summary="Pair the dump of an offline model with that of the original model, by its fusion rules or by name.",
)
