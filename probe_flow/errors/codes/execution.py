"""Codes of execution and cache (PF6xxx)."""

from __future__ import annotations

from probe_flow.errors.codes import conversions, dumping, measuring, reductions
from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF6002",
        "a batch of a stage failed",
        "An error that belongs to no single tensor stopped a batch of work: memory or disk ran out, or a part of the "
        "stage has a defect.",
        "batch 3 of 12 of stage `result` failed: MemoryError: cannot allocate 268435456 bytes",
        "Remove the cause named in the message and run again; fewer `--workers` need less memory.",
    ),
    Code(
        "PF6003",
        "a stage stopped with an error that it did not foresee",
        "Neither the data nor the workflow is to blame as far as the stage can tell: the disk is full, a file vanished "
        "while it was read, or the stage has a defect.",
        "stage `report` stopped: OSError: [Errno 28] No space left on device",
        "Read the traceback in `events.jsonl` (event `stage.crashed`); report it when it looks like a defect.",
    ),
    Code(
        "PF6004",
        "a stage returned something of another kind than it declares",
        "Each stage declares what it produces (catalog, pairs, comparison, report); the object it returned is none.",
        "stage `target` (`dump.mine`) returned a list, not a catalog",
        "This is a defect of the stage; report it to its author.",
    ),
    Code(
        "PF6010",
        "the output folder holds something that is no run",
        "`--output` names a file, or a folder with files in it that probe_flow did not write. Results never replace "
        "files of other origin.",
        "probe-flow run workflow.yaml --output ~/documents",
        "Name an empty or a new folder. The folder of an earlier run may be named again: its results are replaced.",
    ),
    Code(
        "PF6011",
        "the output folder cannot be used",
        "The folder cannot be created or written: permissions, a full disk, or a file in the way.",
        "the output folder cannot be used: Permission denied",
        "Name a folder that you may write with `--output`.",
    ),
    Code(
        "PF6012",
        "nothing to resume",
        "`--resume` found no folder of an earlier run of this workflow",
        "probe-flow run w.yaml --resume",
        "name the folder of the run with `--output`, or leave out `--resume`",
    ),
    Code(
        "PF6013",
        "another run is at work in the output folder",
        "Two runs in one folder would replace each other's files. The lock file `.probe_flow_run.lock` in it names the "
        "process. It ends with its process, however that ends; one of another machine counts until nobody has touched "
        "it for two minutes.",
        "a run is at work in the output folder: process 4242 on `node7`",
        "Wait until that run has ended, end it, or name another folder with `--output`.",
    ),
    Code(
        "PF6014",
        "a signal stopped the run",
        "Ctrl-C (SIGINT), SIGTERM or the end of the terminal (SIGHUP) ended the stage that was under way; no further "
        "one began. The record says `interrupted`, and the exit code is 128 and the number of the signal. A second "
        "signal after a second ends the process at once, and then the record says `running`.",
        "the run was stopped by SIGTERM",
        "Continue it with `probe-flow run ... --resume`: what was measured is not measured again.",
    ),
    Code(
        "PF6101",
        "no Dask scheduler answers",
        "The scheduler at `executor.address` is not running, listens on another port, cannot be reached from here, or "
        "is another program. At a `tls://` address the certificates of the two may be of different authorities.",
        "no Dask scheduler answers at `tls://host:8786` within 5 s",
        "Start one with `dask scheduler`, correct the address, or use `--scheduler processes`.",
    ),
    Code(
        "PF6102",
        "a Dask worker has no probe_flow",
        "Workers of a cluster run probe_flow's own code on files that they open themselves. The worker named cannot "
        "load it: it is not installed there, or in a version that does not work with this one.",
        "worker `tcp://10.0.0.7:40123` cannot load probe_flow: ModuleNotFoundError: No module named 'probe_flow'",
        "Install the same version in the environment of the worker, and start the worker again.",
    ),
    Code(
        "PF6103",
        "versions differ between this process and Dask workers",
        "Another probe_flow or numpy may measure with other last bits, so that the same run on one machine need not "
        "give the same bytes.",
        "numpy is 2.4.6 here and 1.26.4 on `tcp://10.0.0.7:40123`: sums may differ in their last bits",
        "Install the same versions on the workers.",
    ),
    Code(
        "PF6104",
        "a Dask worker makes records of another layout",
        "What a worker returns of a batch has a layout with a version. A worker with another one cannot be used, since "
        "its numbers would be taken for others.",
        "worker `tcp://10.0.0.7:40123` makes records of layout 2, this process needs layout 1",
        "Install the same version of probe_flow on the workers.",
    ),
    Code(
        "PF6105",
        "a package of the scheduler `distributed` is not installed",
        "The scheduler `distributed` needs the package `distributed`, and `cryptography` for the certificates of a "
        "cluster of its own; the other schedulers do not.",
        "probe-flow run workflow.yaml --scheduler distributed",
        "pip install probe-flow[distributed]",
    ),
    Code(
        "PF6106",
        "a batch ended its worker each time that it was tried",
        "A worker process was killed while it measured the batch, and so was the one that tried again. Most often "
        "memory ran out, or a file became shorter while it was mapped. The pairs of the batch have no result; the "
        "others are not affected.",
        "batch 3 of 12 of stage `result` ended its worker 2 times: killed by SIGKILL",
        "Use fewer `--workers`, set `executor.memory_limit`, or `io: read` for a dump that still changes.",
    ),
    Code(
        "PF6107",
        "the memory limit is below what one worker needs",
        "`executor.memory_limit` is the memory of all workers together; not even one worker of this scheduler fits.",
        "executor: {scheduler: processes, memory_limit: 32MiB}",
        "Raise the limit, or use `sync`, which has no workers.",
    ),
    Code(
        "PF6108",
        "a Dask cluster does not work",
        "It has no workers, or none that takes work, or its scheduler ended or no longer answers. A run waits a while "
        "for that to change, then it ends; docs/explanation/limits.md says how long.",
        "the Dask cluster does not work: for 120 s it has had no workers",
        "Start workers with `dask worker ADDRESS`. A run that had begun continues with `run --resume`.",
    ),
    Code(
        "PF6110",
        "nothing proves who answers at the address of a cluster",
        "The messages of a Dask scheduler can hold code, which the receiver runs. Without certificates anybody who "
        "answers at the address, or changes what is sent, can run code on this machine as you; on a machine with "
        "other users that holds for `localhost` too.",
        'executor: {scheduler: distributed, address: "tcp://host:8786"}',
        "Start the cluster with certificates and write its address as `tls://host:8786`; or write `trust: network` "
        "below `executor` when you trust everybody who can reach the network between you and the cluster.",
    ),
    Code(
        "PF6111",
        "a `tls://` address without usable certificates",
        "Dask's configuration names the certificates with which this process and the cluster prove who they are: "
        "that of the cluster's own authority, and one with its key for the client. One is not named, or its file "
        "cannot be used.",
        'executor: {scheduler: distributed, address: "tls://host:8786"}',
        "Set `distributed.comm.tls.ca-file`, `distributed.comm.tls.client.cert` and `distributed.comm.tls.client.key` "
        "in `~/.config/dask/distributed.yaml`, or DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "
        "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY in the environment.",
    ),
    Code(
        "PF6112",
        "workers of a Dask cluster do not answer",
        "Before a run every worker of a cluster is asked for its versions. At least one does not answer: it hangs, or "
        "it loads its packages very slowly.",
        "not all workers of the Dask cluster at `tls://host:8786` say their versions within 60 s",
        "End the workers that hang, or try again once they have started.",
    ),
    Code(
        "PF6113",
        "an own Dask cluster does not start",
        "The scheduler `distributed` without an address starts a cluster of this machine: a process per worker. The "
        "system refused a process, memory or a port, or the machine is too busy.",
        "the Dask cluster of 8 workers did not start within 300 s: OSError: [Errno 24] Too many open files",
        "Run again when the machine has room, use fewer `--workers`, or `--scheduler processes`.",
    ),
    Code(
        "PF6201",
        "cache shard is damaged",
        "a file in the cache folder was cut off, changed, or written by another program",
        "cache shard `3f2a.h5` is damaged or of another program",
        "nothing: its results are computed again; `probe-flow cache gc` removes such files",
    ),
    Code(
        "PF6202",
        "cache shard is of a newer version",
        "a newer probe_flow wrote to the same cache folder",
        "cache shard `3f2a.h5` was written by a newer probe_flow (format 2, this one reads 1)",
        "use another `cache.dir` for one of the two versions",
    ),
    Code(
        "PF6203",
        "cache cannot be written",
        "the cache folder is read-only, on a full disk, or its file system failed",
        "the cache cannot be written: No space left on device",
        "results are not affected; free space, set `cache.dir`, or pass `--no-cache`",
    ),
    Code(
        "PF6204",
        "cache cannot be read",
        "the cache folder exists, but its files cannot be opened",
        "the cache cannot be read: Permission denied",
        "everything is measured again; set `cache.dir`, or pass `--no-cache`",
    ),
    Code(
        "PF6205",
        "converted tensors cannot be kept",
        "the cache folder is read-only, on a full disk, or its file system failed",
        "converted tensors cannot be kept: No space left on device",
        "results are not affected; free space, or set `cache: {tensors: never}`",
    ),
    *reductions.EXECUTION,
    *conversions.SECTION,
    *dumping.SECTION,
    *measuring.SECTION,
)
