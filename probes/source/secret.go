package source

import (
	"fmt"
	"log/slog"
)

const hidden = "<secret>"

// Secret is a string that hides itself wherever it might be printed: by fmt
// with any verb, in slog, in JSON and in YAML. Convert it to a string to use it.
type Secret string

// Format implements fmt.Formatter, which covers %v, %s, %q, %x and %#v.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }
