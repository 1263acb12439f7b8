// Package observe computes the rows of a sink from the records of one partition, without clock and I/O.
//
//	f := observe.New(observe.Config{Position: at})
//	for rec := range records {
//		if f.Missing(rec) {
//			f.Load(rec.Session.Tree()) // and append the records of the tree before rec, with a nil batch
//		}
//		f.Append(&batch, rec)
//	}
//
// The rows are a function of the log. A Folder keeps the state of a tree while all fit in Config.Memory; then it forgets the tree that was used least
// recently, and asks for its records again when it continues. So a restart needs no stored state.
//
// # Rows
//
// Each record is a row of events, unless it is a piece of text and Config.Deltas is off. Runs, steps, calls and waits are rows of observations: when they end, runs
// and waits also when they begin, and again when a later record changes them. The sums of a run are those at the time of its row.
//
// The states of runs and calls are those of projector/fold. The differences are decisions:
//   - A run that fails with the code run_abandoned is abandoned, with aborted it is interrupted.
//   - The end of a run ends the open steps and calls of its turn as interrupted, and their waits. A later outcome completes such a call.
//   - A call whose sub-agent has failed is failed, also if its outcome has no error.
//   - A call counts in the run in which it ends. A denied one has not failed.
//   - A record before the first run_started of a session begins a run without an id, unless it is a piece of text, of reasoning or of arguments: these have no rows.
//   - The row of a sub-agent's run names the call that was open when the run began, and has the turn, the trace and the user of that call.
//
// # Cleanups
//
// A cleanup is a row of gaps for each range that it removes. The rows of what began in such a range stay; readers leave them out. Other rows that are different
// without the removed records are written again: the ones that readers see are those of the remaining log. For that a session keeps the records that change rows since the
// start of the previous turn, without the pieces of reasoning and arguments, and a few earlier states. A cleanup of earlier turns changes no rows of runs: their sums
// are what was paid. If the log had deleted removed records before the session was loaded, rows that they may have changed are written again at the cleanup.
//
// # Content
//
// Text, values, errors and members that the schema does not have are content: a row has them as Config.Show shows them. Everything else is in each view the same, also the sizes
// of content. A value or a text has at most 256 KiB in a row.
//
// # Limits
//
// The state of a tree has bounds, because a client can write very many records in a turn:
//   - A tree keeps 4 MiB of content, of the sessions that were used last. Rows that are written later for earlier records are without it, and content_truncated.
//   - A cleanup changes no rows of a sub-agent that ended before the previous turn of the root, whose content is forgotten: a later row of its last run is without it,
//     and content_truncated.
//   - A tree whose state has over 16 MiB by estimate, such as 7,000 open calls, is forgotten: what has not ended is unknown, and what follows is incomplete.
//
// # What the rows do not tell
//
// A turn that never continues stays running: no record says that it has expired. What a session had left open is written as unknown when its ordinals begin again, but only
// by a Folder that has its state.
package observe
