// Package lease lets one of several processes do a periodic task. The lease is a key in the bucket of snapshots; the time of the key is the start of the
// last run of the task.
//
//	l, err := lease.New(js, layout, "sweep", time.Hour)
//	for {
//		err := l.RunIfFree(ctx, sweep) // does nothing if another process has run it in this hour
//		...
//	}
//
// A lease saves work and is not mutual exclusion: a slow process may still run the task when the next one starts it, so the task must tolerate two
// concurrent runs.
package lease
