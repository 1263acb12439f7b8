package chunk

// What one chunk may hold. Decode refuses more before it builds anything, so
// that a hostile text costs no more than reading it once; AppendJSON refuses to
// write what Decode would not read.
const (
	MaxDepth           = 32              // objects and arrays inside one another, the chunk itself included
	MaxValues          = 20_000          // JSON values, at all levels together
	MaxName            = 128             // bytes of a member's name, unescaped
	MaxTypeLength      = 128             // bytes of a type that is not of the catalogue
	MaxPatchOps        = 1_000           // operations in one state_patch
	MaxPointerSegments = 64              // reference tokens of a JSON pointer in a patch
	MaxInteger         = 1<<53 - 1       // largest integer member, and -MaxInteger the smallest: what a double counts exactly
	MaxTimestamp       = 253402300799999 // 9999-12-31T23:59:59.999Z, the last instant RFC 3339 can write
)
