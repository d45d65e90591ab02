"""The contract with `hakaru-engine`: what may stand on a line of its stdin and stdout.

A mirror of `crates/contract`, which defines it; `tests/engine/test_contract.py` holds the two together through
`schema/contract.schema.json`. One module per engine; `message` has what carries them. Field by field meaning, units,
bounds and defaults stand in the Rust sources and the schema; here are the shapes. Strict: nothing unknown, nothing
coerced.

    Configure(contract=CONTRACT_VERSION, config=ProbeServer(listen="10.77.0.1:0")).line()   → bytes for stdin
    parse_event(line)                                                                     → Hello | Ready | … of stdout
"""

from __future__ import annotations

from hakaru.engine.contract.access import (
    STRONG,
    AccessConfig,
    AccessRule,
    ChapAlgorithm,
    ChapConfig,
    ChapUser,
    LuAccess,
    Secret,
    SecretFile,
    SecretText,
)
from hakaru.engine.contract.array import (
    ArrayConfig,
    ArrayModel,
    FileStore,
    GroupConfig,
    LuConfig,
    MemoryStore,
    Model,
    NoModel,
    Placement,
    PoolConfig,
    PresetModel,
    Store,
    ThinStore,
)
from hakaru.engine.contract.backup import BackupConfig, BackupJob, Compression, Lu, NoCompression, Zstd
from hakaru.engine.contract.fabric import (
    BurstLoss,
    Direction,
    End,
    ExponentialJitter,
    FabricConfig,
    FabricEngineConfig,
    InterfaceEnd,
    LinkConfig,
    Mark,
    NoJitter,
    NoLoss,
    NormalJitter,
    Queue,
    RandomLoss,
    Red,
    SharedBuffer,
    SwitchConfig,
    SwitchEnd,
    TailDrop,
    UniformJitter,
)
from hakaru.engine.contract.initiator import (
    ClosedLoad,
    Destination,
    FileDestination,
    InitiatorConfig,
    IscsiDestination,
    Load,
    LoginKeys,
    OpenLoad,
    Pattern,
    Region,
    SizeWeight,
    Vm,
)
from hakaru.engine.contract.manage import (
    CloneAction,
    CreateAction,
    DeleteAction,
    GrowAction,
    ManageAction,
    ResizeAction,
    SetPortStateAction,
    SetQuotaAction,
    SnapshotAction,
    StatusAction,
    WithdrawAction,
)
from hakaru.engine.contract.message import (
    CONTRACT_VERSION,
    Command,
    Configure,
    EngineConfig,
    Error,
    ErrorClass,
    Event,
    Hello,
    Manage,
    NamedHistogram,
    Phase,
    Ready,
    Reply,
    ReplyError,
    Result,
    Sample,
    Start,
    Stop,
    parse_event,
)
from hakaru.engine.contract.part import Message
from hakaru.engine.contract.probe import ProbeClient, ProbeServer
from hakaru.engine.contract.watch import WatchConfig

__all__ = [
    "CONTRACT_VERSION", "STRONG", "AccessConfig", "AccessRule", "ArrayConfig", "ArrayModel", "BackupConfig",
    "BackupJob", "BurstLoss", "ChapAlgorithm", "ChapConfig", "ChapUser", "CloneAction", "ClosedLoad", "Command",
    "Compression", "Configure", "CreateAction", "DeleteAction", "Destination", "Direction", "End", "EngineConfig",
    "Error", "ErrorClass", "Event", "ExponentialJitter", "FabricConfig", "FabricEngineConfig", "FileDestination",
    "FileStore", "GroupConfig", "GrowAction", "Hello", "InitiatorConfig", "InterfaceEnd", "IscsiDestination",
    "LinkConfig", "Load", "LoginKeys", "Lu", "LuAccess", "LuConfig", "Manage", "ManageAction", "Mark", "MemoryStore",
    "Message", "Model", "NamedHistogram", "NoCompression", "NoJitter", "NoLoss", "NoModel", "NormalJitter", "OpenLoad",
    "Pattern", "Phase", "Placement", "PoolConfig", "PresetModel", "ProbeClient", "ProbeServer", "Queue", "RandomLoss",
    "Ready", "Red", "Region", "Reply", "ReplyError", "ResizeAction", "Result", "Sample", "Secret", "SecretFile",
    "SecretText", "SetPortStateAction", "SetQuotaAction", "SharedBuffer", "SizeWeight", "SnapshotAction", "Start",
    "StatusAction", "Stop", "Store", "SwitchConfig", "SwitchEnd", "TailDrop", "ThinStore", "UniformJitter", "Vm",
    "WatchConfig", "WithdrawAction", "Zstd", "parse_event",
]  # fmt: skip
