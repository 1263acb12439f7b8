// Package archive defines the format of an archive, a compressed copy of the log of one session, and reads archives in a few large pieces.
//
// A Packer packs records into segments, and Unpack returns the same records: sequence, epoch, ordinal, type, time and body, byte for byte. The Index names
// the segments and the state of the log that they contain.
//
// A Reader compares the index with the log before it uses an archive; see Index.MatchesLog. If the log has expired, was purged, cleaned up or recreated, the
// archive does not match and is not read:
//
//	indexes := reader.Indexes(ctx, session, chunk.ScopeSession)
//	... // then the state of the log
//	archives := reader.Open(ctx, indexes, state, after)
//	rec, err := archives[subject].Next(ctx)
//
// In the object bucket an archive uses two subjects, which are not those of named objects, so that one purge with Keys removes the archives of a session or
// of a tree:
//
//	$O.TR_OBJECTS.C.archive.<tenant>.<root>.<session>.index
//	$O.TR_OBJECTS.C.archive.<tenant>.<root>.<session>.segments
package archive
