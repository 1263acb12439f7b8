// Package topology creates and checks the streams and buckets of Tailrace.
//
//	TR_CHUNKS_<p>    the log, one stream per partition
//	TR_COMMANDS      commands to workers, a work queue
//	TR_DEADLINES     deadlines of suspended runs
//	TR_INBOX         answers and stop requests to runs, a key-value bucket
//	TR_CREDENTIALS   revocations and tickets of clients, a key-value bucket
//	TR_USAGE         tokens that tenants have used, a key-value bucket
//	TR_SNAPSHOTS     snapshots of partition 0, a key-value bucket
//	TR_SNAPSHOTS_<p> snapshots of another partition
//	TR_OBJECTS       values that are too large for them, an object bucket
//	TR_DEADLETTERS   messages of the log that could not be folded
//
// Every program calls Ensure (or Check, if its account may not create streams) once at the start, before it reads or writes:
//
//	if err := topology.Ensure(ctx, js, topology.Config{Replicas: 3}); err != nil {
//		return err // describes the problem and its remedy
//	}
//
// `tailrace setup` is Ensure in a process of its own. Streams returns the configurations, for other tools; `tailrace setup --print` prints them.
//
// Ensure creates missing streams and never changes existing ones: an operator may bound and tune them. A Difference is of one of three classes. With Breaks
// a guarantee does not hold, such as a partition that is missing or a queue that drops commands: Ensure and Check return a *DiffError with one line for each
// setting. Stricter is a lower limit, and Accepted does not matter; Differences returns all of them. The sizes and ages of existing streams are compared with the
// fields of Config that are set, so the zero Config accepts all with which the guarantees hold.
//
// A stream that Ensure creates has a random epoch in its metadata (tailrace.epoch), which identifies its history: positions of readers belong to it. A stream
// without one, which another tool has created from Streams, has its creation time as its epoch.
//
// # The number of partitions
//
// The partition of a session is a hash modulo the number of partitions, so another number would send running sessions to other streams. The number is fixed when
// the streams are created: each stores it (metadata tailrace.partitions), and Ensure and Check return an error for another one. ADR 0043 has the reasons, and
// docs/guides/scale.md what to do instead.
package topology
