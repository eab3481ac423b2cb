package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"

	"gopkg.in/yaml.v3"

	"github.com/regpath/diagnose/cmd/shell"
	"github.com/regpath/diagnose/notify"
)

// secret is a value of the configuration that must not be seen: written as the
// text itself or, better, as {file: PATH} or {env: NAME}. A reference is
// followed by resolve, so that a command needs only the secrets that it uses.
type secret struct {
	notify.Secret
	file, env string
}

// plainSecret is a secret that is written as the text itself.
func plainSecret(s string) secret { return secret{Secret: notify.NewSecret(s)} }

// given says whether anything was written, resolved or not.
func (s secret) given() bool { return s.Reveal() != "" || s.file != "" || s.env != "" }

// UnmarshalYAML implements yaml.Unmarshaler. Its errors quote no value.
func (s *secret) UnmarshalYAML(n *yaml.Node) error {
	switch {
	case n.Kind == yaml.ScalarNode:
		s.Secret = notify.NewSecret(n.Value)
		return nil
	case n.Kind != yaml.MappingNode || len(n.Content) != 2 || n.Content[1].Kind != yaml.ScalarNode:
		return errors.New("want the text, {file: PATH} or {env: NAME}")
	}
	switch n.Content[0].Value {
	case "file":
		s.file = n.Content[1].Value
	case "env":
		s.env = n.Content[1].Value
	default:
		return errors.New("unknown field: want file or env")
	}
	return nil
}

// resolve follows the reference, if it is one.
func (s *secret) resolve() error {
	switch {
	case s.file != "":
		v, err := secretFile(s.file)
		if err != nil {
			return err
		}
		s.Secret = v.Secret
	case s.env != "":
		v := os.Getenv(s.env)
		if v == "" {
			return fmt.Errorf("environment variable %s is not set", unlessSecret(s.env))
		}
		s.Secret = notify.NewSecret(v)
	}
	return nil
}

// secretFile reads a secret from a file, without the white space around it. An
// empty path is an empty secret.
func secretFile(path string) (secret, error) {
	if path == "" {
		return secret{}, nil
	}
	text, err := shell.ReadSecret(path)
	return secret{Secret: notify.NewSecret(text)}, err
}

// variable is what the name of an environment variable looks like.
var variable = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// unlessSecret returns the name of an environment variable, unless it looks as if
// the secret itself stood there.
func unlessSecret(name string) string {
	if variable.MatchString(name) {
		return name
	}
	return "(not shown: it looks like the secret itself)"
}
