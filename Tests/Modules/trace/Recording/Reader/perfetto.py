"""Reads recordings in Perfetto's format with the protobuf library, compares them with the same recordings in JSON,
and prints the arrows.

    perfetto.py FILE.pftrace... [FILE.json...]

The messages are restated here from Perfetto's documentation, so that this reader is independent of the writer. Files of
several processes are read as one: an arrow's number means the same in all of them."""

import json
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

U64, U32, I32, FIXED, TEXT, MESSAGE, BYTES = 4, 13, 5, 6, 9, 11, 12
# message: name -> (number, type, repeated, message's name)
MESSAGES = {
    "Trace": {"packet": (1, MESSAGE, True, "TracePacket")},
    "TracePacket": {
        "timestamp": (8, U64, False),
        "trusted_packet_sequence_id": (10, U32, False),
        "track_event": (11, MESSAGE, False, "TrackEvent"),
        "interned_data": (12, MESSAGE, False, "InternedData"),
        "sequence_flags": (13, U32, False),
        "track_descriptor": (60, MESSAGE, False, "TrackDescriptor"),
    },
    "TrackDescriptor": {
        "uuid": (1, U64, False),
        "name": (2, TEXT, False),
        "process": (3, MESSAGE, False, "ProcessDescriptor"),
        "parent_uuid": (5, U64, False),
    },
    "ProcessDescriptor": {"pid": (1, I32, False), "process_name": (6, TEXT, False)},
    "TrackEvent": {
        "category_iids": (3, U64, True),
        "debug_annotations": (4, MESSAGE, True, "DebugAnnotation"),
        "type": (9, I32, False),
        "name_iid": (10, U64, False),
        "track_uuid": (11, U64, False),
        "source_location_iid": (34, U64, False),
        "flow_ids": (47, FIXED, True),
        "terminating_flow_ids": (48, FIXED, True),
    },
    "DebugAnnotation": {
        "name_iid": (1, U64, False),
        "uint_value": (3, U64, False),
        "string_value_iid": (17, U64, False),
    },
    "InternedData": {
        "event_categories": (1, MESSAGE, True, "Interned"),
        "event_names": (2, MESSAGE, True, "Interned"),
        "debug_annotation_names": (3, MESSAGE, True, "Interned"),
        "source_locations": (4, MESSAGE, True, "SourceLocation"),
        "debug_annotation_string_values": (29, MESSAGE, True, "InternedString"),
    },
    "Interned": {"iid": (1, U64, False), "name": (2, TEXT, False)},
    "InternedString": {"iid": (1, U64, False), "str": (2, BYTES, False)},
    "SourceLocation": {"iid": (1, U64, False), "file_name": (2, TEXT, False), "line_number": (4, U32, False)}}


def trace_class():
    file = descriptor_pb2.FileDescriptorProto(name="trace.proto", package="p", syntax="proto2")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, repeated, *of) in fields.items():
            message.field.add(
                name=field,
                number=number,
                type=kind,
                label=3 if repeated else 1,
                type_name=f".p.{of[0]}" if of else None)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName("p.Trace")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


def unknown(message):
    """Fields that the messages above do not have."""
    try:
        from google.protobuf.unknown_fields import UnknownFieldSet
        count = len(UnknownFieldSet(message))
    except ImportError:
        count = len(message.UnknownFields())
    for field, value in message.ListFields():
        if field.type == MESSAGE:
            count += sum(map(unknown, value)) if hasattr(value, "__len__") else unknown(value)
    return count


def events(trace):
    tracks, sequences = {}, {}
    for packet in trace.packet:
        texts = sequences.setdefault(packet.trusted_packet_sequence_id, {})
        assert packet.trusted_packet_sequence_id, "a packet without a sequence"
        if packet.sequence_flags & 1:
            texts.clear()
        data = packet.interned_data
        for kind in ("event_categories", "event_names", "debug_annotation_names"):
            texts.setdefault(kind, {}).update((e.iid, e.name) for e in getattr(data, kind))
        texts.setdefault("values", {}).update((e.iid, e.str.decode()) for e in data.debug_annotation_string_values)
        texts.setdefault("places", {}).update(
            (e.iid, f"{e.file_name}:{e.line_number}" if e.line_number else e.file_name) for e in data.source_locations)
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            tracks[track.uuid] = track
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        assert packet.sequence_flags & 2, "texts are used, and nobody says so"
        track, lasting = tracks[event.track_uuid], None
        if not tracks[track.parent_uuid].HasField("process"):
            # A track of a connection or the like, which lies under the track of its loop.
            lasting, track = track.uuid & 0xFFFFFFFF, tracks[track.parent_uuid]
        process = tracks[track.parent_uuid].process
        said = {
            "process": process.pid,
            "track": track.name,
            "ts": packet.timestamp,
            "type": {1: "B", 2: "E", 3: "i"}[event.type]}
        if lasting is not None:
            said.update(type=said["type"].lower(), id=lasting)
        if event.category_iids:
            said["cat"] = ",".join(texts["event_categories"][i] for i in event.category_iids)
        if event.name_iid:
            said["name"] = texts["event_names"][event.name_iid]
        if event.source_location_iid:
            said["made at"] = texts["places"][event.source_location_iid]
        if event.flow_ids:
            said["flows"] = list(event.flow_ids)
        if event.terminating_flow_ids:
            said["ends"] = list(event.terminating_flow_ids)
        for annotation in event.debug_annotations:
            name = texts["debug_annotation_names"][annotation.name_iid]
            said[name] = (
                texts["values"][annotation.string_value_iid] if annotation.string_value_iid else annotation.uint_value)
        yield said


def arrow(process, number):
    """Each process numbers the arrows within it; the numbers of arrows between processes have the highest bit set."""
    return number if number >> 31 else process << 32 | number


def expected(path):
    """The events that the Perfetto file should have, read from the same recording in JSON form."""
    titles, names = {}, {}

    def nanoseconds(text):
        return int(text.replace(".", ""))  # always three digits after the decimal point

    for event in json.load(open(path), parse_float=str):
        args, phase = event.get("args", {}), event["ph"]
        if phase == "M":
            if event["name"] == "process_name":
                titles[event["pid"]] = args["name"]
            elif event["name"] == "thread_name":
                names[event["pid"], event["tid"]] = args["name"]
            continue
        if phase == "t" or phase == "f" and args["at"] != "in":
            continue  # the slice's field "flow" already names this arrow
        said = {
            "process": event["pid"],
            "track": names[event["pid"], event["tid"]],
            "ts": nanoseconds(event["ts"]),
            "type": phase}
        for key, value in args.items():
            if key.endswith("_us"):
                said[key[:-3] + "_ns"] = nanoseconds(value)
            elif key not in ("flow", "at", "by", "kind"):
                said[key] = value
        if phase in "be":
            said.update(id=event["id"], cat=event["cat"], name=event["name"])
        if phase == "e":
            for key in ("cat", "name", "made at"):
                said.pop(key, None)
        if phase in "BiX":
            said.update(cat=event["cat"], name=event["name"])
        if phase == "E" and "kind" in args:
            said["cat"] = args["kind"]
        if "flow" in args:
            said["flows" if phase == "E" else "ends"] = [arrow(event["pid"], args["flow"])]
        if phase == "s":
            said.update(
                type="i",
                cat="send," + args.get("kind", "other"),
                name=args["by"],
                flows=[arrow(event["pid"], event["id"])])
        if phase == "f":
            said.update(type="i", cat="receive", name="received", ends=[arrow(event["pid"], event["id"])])
        if phase != "X":
            yield said
            continue
        said.update(type="B", whole_ns=nanoseconds(event["dur"]))
        yield said
        yield {key: said[key] for key in ("process", "track")} | {"type": "E", "ts": said["ts"] + said["whole_ns"]}


if __name__ == "__main__":
    recordings, jsons = ([path for path in sys.argv[1:] if path.endswith(end)] for end in (".pftrace", ".json"))
    trace = trace_class().FromString(b"".join(open(path, "rb").read() for path in recordings))
    # The number of the format, in the first packet of each file.
    assert unknown(trace) == len(recordings), "fields that Perfetto does not have there"
    found = list(events(trace))
    wanted = [event for path in jsons for event in expected(path)]
    for n, (a, b) in enumerate(zip(found, wanted)):
        assert a == b, f"event {n}:\n  .pftrace {a}\n  .json    {b}"
    assert not jsons or len(found) == len(wanted), f"{len(found)} events, but {len(wanted)} in JSON"
    sends = {flow: event for event in found for flow in event.get("flows", ()) if event["type"] == "i"}
    arrows = 0
    for event in found:
        for flow in event.get("ends", ()):
            if flow in sends:
                arrows += 1
                a, b = sends[flow], event
                print(f"{a['process']} {a['track']} -> {b['process']} {b['track']}: {a['name']} -> {b['name']}")
    print(len(found), "events,", arrows, "arrows")
