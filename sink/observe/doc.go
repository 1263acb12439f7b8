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
// and waits also when they begin, and again when a later record changes them. A cleanup is a row of gaps for each range that it removes. The rows of what
// began in such a range stay; readers leave them out.
package observe
