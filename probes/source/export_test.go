package source

// Circuit lets tests see a circuit.
type Circuit struct{ circuit }

// NewCircuit returns a closed circuit.
func NewCircuit() *Circuit { return &Circuit{} }

// Check is circuit.check.
func (c *Circuit) Check() error { return c.check() }

// Note is circuit.note.
func (c *Circuit) Note(err error) { c.note(err) }
