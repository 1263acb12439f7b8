// Package archive is the form of an archive: a second copy of what the log has
// of one session, compressed, that can be read in a few large pieces.
//
// A Packer turns records into segments, Unpack turns a segment back into the
// same records: sequence, epoch, ordinal, type, time of storing and body, byte
// for byte. The Index says which segments there are, and of which log.
//
// An archive is of use only to who has asked the log first, see Index.Fits. So
// it can be wrong about nothing: when the log has expired, was purged, cleaned
// up or made again, the archive does not fit and nobody reads it.
//
// In the object bucket an archive is on two subjects, which are not those of
// named objects, so that one purge with Keys removes the archives of a session
// or of a tree:
//
//	$O.TR_OBJECTS.C.archive.<tenant>.<root>.<session>.index
//	$O.TR_OBJECTS.C.archive.<tenant>.<root>.<session>.segments
package archive
