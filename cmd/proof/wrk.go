package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

var (
	wrkRate   = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	wrkErrors = regexp.MustCompile(`(?m)^\s*(Non-2xx or 3xx responses: .*|Socket errors: .*)$`)
)

// wrk runs a load on 64 connections for the time given and returns the rate of
// answers. Any failed request is an error: a fast refusal is no performance.
func wrk(ctx context.Context, script, url, lua string, d time.Duration) (float64, error) {
	args := []string{"-t2", "-c64", "-d" + d.String()}
	if lua != "" {
		if err := os.WriteFile(script, []byte(lua), 0o600); err != nil {
			return 0, fmt.Errorf("write the script of wrk: %w", err)
		}
		args = append(args, "-s", script)
	}
	ctx, cancel := context.WithTimeout(ctx, d+30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "wrk", append(args, url)...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("wrk (Debian: apt-get install wrk): %w: %s", err, out)
	}
	if failed := wrkErrors.Find(out); failed != nil {
		return 0, fmt.Errorf("wrk: %s", failed)
	}
	m := wrkRate.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("wrk printed no rate: %s", out)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}
