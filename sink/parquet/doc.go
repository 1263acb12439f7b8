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
// # Maintenance
//
// Maintain merges the files of days that are over, without the newest file of each chain, into files of at most 16 MiB:
//
//	<table>/date=YYYY-MM-DD/m<partition>-g<generation>-<first>.parquet
//
// The state of a partition, maintained/p<partition>.json, has for each chain the record (end) before which the rows of the merged files count; from it on, those of the files
// p* count. The views of views.sql apply this rule, so they give each row once at each moment, whichever of the files exist: one write moves the end, an hour after
// the merged files were stored, and the files p* before it are removed an hour later. In these two hours a reader that takes all files sees the rows of merged files twice.
// A query that lasts longer than an hour, or a prepared statement, which keeps its list of files, may fail because a file of its list is removed. A merged file has all rows
// of the files before, also those of observations that later rows replace: after the log was restored from a backup, the later ones may not count.
//
// The state is written on the version that was read, and has the ranges to merge before they are merged. So several processes merge the same ranges, and after a stop
// at any step the next call continues. A merged file says up to which position it has the erasures; one that a suspended process has stored after an erasure is
// written again before its rows count.
//
// A name is removed at least two hours after its file was stored, and its name is free then. A writer whose knowledge of the chains is half an hour old reads them again
// before it stores a batch; one that was suspended between that and the creation of a file reports row.ErrConflict after it, and reads them. What it has stored
// under a removed name is before the end, where no view gives it, or is too old to be kept; Maintain removes both. This needs clocks that differ by less than an hour.
//
// What is older than Maintain keeps is removed by its date. The newest file of each chain stays without its rows: it has the position. No other program may remove
// files: without the newest one, a chain would begin again.
//
//	store, err := parquet.OpenDirectory("lake")
//	positions, err := store.Begin(ctx, partitions)
//	err = store.Commit(ctx, positions[0], batch)
//	err = store.Maintain(ctx, olderThan) // from time to time
package parquet
