package notify

import "log/slog"

// redacted stands for a secret wherever one would have been printed.
const redacted = "<secret>"

// Secret is a token or a URL that grants access. It never prints, marshals or
// logs what it holds: only Reveal returns it. The value sits behind a pointer
// because fmt prints the unexported fields of a surrounding struct by
// reflection, past every method here. The zero value is an empty secret.
type Secret struct{ value *string }

// NewSecret wraps s.
func NewSecret(s string) Secret { return Secret{&s} }

// Reveal returns what the secret holds, for the one call that needs it.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// String implements fmt.Stringer.
func (Secret) String() string { return redacted }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return redacted }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler, which JSON and YAML use.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText implements encoding.TextUnmarshaler: secrets can be read.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = NewSecret(string(b))
	return nil
}
