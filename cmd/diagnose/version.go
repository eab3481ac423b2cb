package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/cmd/shell"
)

func newVersion(std streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  shell.Arguments(0, 0, "flags only"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(std.out, "diagnose %s\n", version())
			return err
		},
	}
}

// version is what the build recorded: the module's version, the revision and
// the toolchain.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	parts := []string{info.Main.Version}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			parts = append(parts, s.Value[:min(12, len(s.Value))])
		case s.Key == "vcs.modified" && s.Value == "true":
			parts = append(parts, "(modified)")
		}
	}
	return strings.Join(append(parts, info.GoVersion), " ")
}
