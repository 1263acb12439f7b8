// Package archiver writes archives: compressed copies of the log of sessions that have ended some time ago. Readers with consumers.Config.UseArchives read
// an archive instead of the log.
//
//	a, err := archiver.New(js, archiver.Config{MinAge: 24 * time.Hour})
//	if err != nil {
//		return err
//	}
//	return a.Run(ctx)
//
// The archiver removes nothing from the log. The log stays authoritative: a reader uses an archive only after the leader has confirmed that the archive
// has exactly what the log has. So an Archiver may crash anywhere, several may work on the same sessions, and none has to be notified when a session
// resumes, is cleaned up, expires or is deleted. docs/adr/0009 has the proof.
package archiver
