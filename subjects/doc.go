// Package subjects is the grammar of names: which subject a session's log has,
// which stream holds it, which key its snapshot has, and back again.
//
//	tr.chunks.<p>.<tenant>.<root>.<session>      the log            stream TR_CHUNKS_<p>
//	tr.commands.<tenant>.<agentType>.<session>   work for workers   stream TR_COMMANDS
//	tr.deadlines.<set|due>.<tenant>.<agentType>.<session>.<run>.<ms>   stream TR_DEADLINES
//	<tenant>.<root>.<session>.<run>.answer.<call>  an answer to a run  bucket TR_INBOX
//	<tenant>.<root>.<session>.<run>.stop           the wish that it stops   bucket TR_INBOX
//	tr.inbox.<key of the inbox>                  a hint about it    no stream
//	tr.deadletters.<tenant>.<root>.<session>.<id> was not folded    stream TR_DEADLETTERS
//	h.<tenant>.<root>.<session>                  snapshot head      bucket TR_SNAPSHOTS
//	m.<tenant>.<root>.<session>.<n>              finished message   bucket TR_SNAPSHOTS
//	o.<tenant>.<root>.<session>.<object>         has an object      bucket TR_SNAPSHOTS
//	<object>                                     what is too large  bucket TR_OBJECTS
//
// You hold a Layout, whose zero value is what everybody uses, and ask it:
//
//	subject, err := layout.Subject(session)   // once per run; publish there
//	session, err := layout.Parse(msg.Subject) // once per message; then ask the session
//
// Names that come from people and other systems are checked here, at the door,
// because the server does not: it stores "*" and ">" as ordinary tokens, so
// that a session of that name would read all the others, and it closes the
// connection for good over one subject that is too long. CheckToken says what
// a name may be; Escape turns any other short string into one that may.
package subjects
