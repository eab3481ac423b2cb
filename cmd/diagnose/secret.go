package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/regpath/diagnose/notify"
)

// secret is a value of the configuration that must not be seen: written as the
// text itself or, better, as {file: PATH} or {env: NAME}, and read once at load.
type secret struct{ notify.Secret }

func (s secret) empty() bool { return s.Reveal() == "" }

// UnmarshalYAML implements yaml.Unmarshaler. Its errors quote no value.
func (s *secret) UnmarshalYAML(n *yaml.Node) error {
	switch {
	case n.Kind == yaml.ScalarNode:
		s.Secret = notify.NewSecret(n.Value)
		return nil
	case n.Kind != yaml.MappingNode || len(n.Content) != 2:
		return errors.New("want the text, {file: PATH} or {env: NAME}")
	}
	key, ref := n.Content[0].Value, n.Content[1].Value
	switch key {
	case "file":
		v, err := secretFile(ref)
		s.Secret = v.Secret
		return err
	case "env":
		v := os.Getenv(ref)
		if v == "" {
			return fmt.Errorf("environment variable %s is not set", ref)
		}
		s.Secret = notify.NewSecret(v)
		return nil
	}
	return fmt.Errorf("unknown field %q: want file or env", key)
}

// secretFile reads a secret from a file, without the white space around it. An
// empty path is an empty secret.
func secretFile(path string) (secret, error) {
	if path == "" {
		return secret{}, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return secret{}, fmt.Errorf("read secret: %w", err)
	}
	v := strings.TrimSpace(string(b))
	if v == "" {
		return secret{}, fmt.Errorf("read secret: %s is empty", path)
	}
	return secret{notify.NewSecret(v)}, nil
}
