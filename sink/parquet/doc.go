// Package parquet stores rows as Parquet files in a directory or in an S3-compatible store: a lake.
//
// A lake has the tables events, observations and gaps:
//
//	<table>/date=YYYY-MM-DD/p<partition>-g<generation>-<first>.parquet
//
// The footer of a file has the range of records whose rows it holds, first to last. First is last of the previous file of the same table, partition and generation
// plus 1, and 0 in the first file of a generation: the files of a table are a chain without gaps, and the name of the next file is its lock, because both kinds of
// stores refuse to create an existing name. Rows are a function of the log, so it does not matter which of two writers stores a file: a writer that finds the next
// name in use drops its rows of that range and continues after it. The date is that of the first row, or of the last record if there is none.
//
// A batch is stored as observations, gaps and events, in this order. A file of observations or gaps without rows is left out, and the next one has a longer range.
// The store must list each file that was stored before the list, as S3 and its compatible stores do.
//
// The position of a partition is the end of its newest file of events. After a crash the files of the other tables may be ahead of it.
//
//	store, err := parquet.OpenDirectory("lake")
//	positions, err := store.Begin(ctx, partitions)
//	err = store.Commit(ctx, positions[0], batch)
//	err = store.Erase(ctx) // from time to time
package parquet
