"""Decodes a Perfetto trace with the schema of the perfetto package; prints JSON for perfetto_test."""

import json
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema


def annotations(event):
    values = {}
    for a in event.debug_annotations:
        values[a.name] = getattr(a, a.WhichOneof("value"))
    return values


def main(path):
    trace = schema.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    tracks, names, clock_of = {}, {}, {}
    slices, instants, counters, clocks, problems = [], [], [], [], []
    open_slices = {}
    last_time = {}
    for p in trace.packet:
        sequence = p.trusted_packet_sequence_id
        if p.sequence_flags & 1:
            names[sequence] = {}
        if p.HasField("trace_packet_defaults"):
            clock_of[sequence] = p.trace_packet_defaults.timestamp_clock_id
        for name in p.interned_data.event_names:
            names[sequence][name.iid] = name.name
        if p.HasField("clock_snapshot"):
            clocks.append({c.clock_id: c.timestamp for c in p.clock_snapshot.clocks})
        if p.HasField("track_descriptor"):
            d = p.track_descriptor
            if d.uuid in tracks:
                problems.append(f"track {d.uuid} described twice")
            label = d.process.process_name or d.thread.thread_name or d.name
            tracks[d.uuid] = {
                "label": label,
                "parent": tracks[d.parent_uuid]["label"] if d.parent_uuid else "",
                "pid": d.process.pid or d.thread.pid,
                "tid": d.thread.tid,
                "counter": d.HasField("counter"),
            }
        if not p.HasField("track_event"):
            continue
        e = p.track_event
        if clock_of.get(sequence) != 3:
            problems.append("an event without the monotonic clock")
        if e.track_uuid not in tracks:
            problems.append(f"an event on track {e.track_uuid}, not described before")
            continue
        track = tracks[e.track_uuid]["label"]
        name = e.name or names[sequence].get(e.name_iid, "")
        entry = {
            "track": track,
            "name": name,
            "time": p.timestamp,
            "notes": annotations(e),
        }
        if e.type == schema.TrackEvent.TYPE_SLICE_BEGIN:
            open_slices.setdefault(e.track_uuid, []).append(entry)
        elif e.type == schema.TrackEvent.TYPE_SLICE_END:
            if not open_slices.get(e.track_uuid):
                problems.append(f"an end without a begin on {track}")
                continue
            begun = open_slices[e.track_uuid].pop()
            begun["duration"] = p.timestamp - begun["time"]
            slices.append(begun)
        elif e.type == schema.TrackEvent.TYPE_INSTANT:
            instants.append(entry)
        elif e.type == schema.TrackEvent.TYPE_COUNTER:
            field = e.WhichOneof("counter_value_field")
            counters.append({"track": track, "time": p.timestamp, "value": getattr(e, field)})
        if e.type in (
            schema.TrackEvent.TYPE_SLICE_BEGIN,
            schema.TrackEvent.TYPE_SLICE_END,
        ):
            if p.timestamp < last_time.get(e.track_uuid, 0):
                problems.append(f"time goes back on {track}")
            last_time[e.track_uuid] = p.timestamp
    for uuid, left in open_slices.items():
        for entry in left:
            problems.append(f"{entry['name']} never ends on {tracks[uuid]['label']}")
    json.dump(
        {
            "tracks": list(tracks.values()),
            "slices": slices,
            "instants": instants,
            "counters": counters,
            "clocks": clocks,
            "problems": problems,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main(sys.argv[1])
