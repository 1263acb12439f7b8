package chunk

// Chunk is one thing an agent said or did, with the base members that every
// chunk carries.
type Chunk struct {
	AgentID   string // session id of the agent that produced it
	AgentType string // name of the agent's definition
	Timestamp int64  // Unix milliseconds
	Step      int64  // step of the agent in its current turn, 0 before the first; absent is read as 0
	Body      Body
	Extra     []Member // members the catalogue does not know, in the order they came
}

// Member is one member of a JSON object.
type Member struct {
	Name  string
	Value Value
}

// Type of the chunk's body.
func (c Chunk) Type() Type { return c.Body.Type() }

// Validate reports, as a *FieldError, what Decode would refuse in the JSON of c.
func (c Chunk) Validate() error { panic("being written") }

// Decode reads the JSON of one chunk or control record and validates it. An
// unknown type becomes an Opaque body. Errors are *FieldError (ErrInvalid).
// The result does not share memory with data.
func Decode(data []byte) (Chunk, error) { panic("being written") }

// AppendJSON appends the JSON of c, one line without trailing newline: base
// members, the body's in catalogue order, then Extra. An Opaque body is
// appended as it came.
func (c Chunk) AppendJSON(dst []byte) ([]byte, error) { panic("being written") }

// Concat joins two WTF-8 strings: a high surrogate at the end of a and a low
// one at the start of b become the character they mean.
func Concat(a, b string) string { panic("being written") }
