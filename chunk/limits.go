package chunk

// The limits of a chunk. Decode rejects larger ones before it allocates anything, so that hostile text costs no more than one scan; AppendJSON does not write
// what Decode would reject.
const (
	MaxDepth           = 32              // nested objects and arrays, including the chunk itself
	MaxValues          = 20_000          // JSON values at all levels together of a record; a writer stores larger values elsewhere
	MaxName            = 128             // bytes of a member's name, unescaped
	MaxTypeLength      = 128             // bytes of an unknown type
	MaxPatchOps        = 1_000           // operations in one state_patch
	MaxPointerSegments = 64              // reference tokens of a JSON pointer in a patch
	MaxLabel           = 256             // bytes of the name of a model or a provider, and of a currency
	MaxInteger         = 1<<53 - 1       // largest integer member, and -MaxInteger the smallest: the range in which float64 is exact
	MaxTimestamp       = 253402300799999 // 9999-12-31T23:59:59.999Z, the last instant of RFC 3339
)
