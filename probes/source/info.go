package source

import (
	"strings"

	"github.com/regpath/diagnose/probes"
)

// Info is what a Redis server says about itself in answer to INFO. Servers
// differ in what they tell: miniredis knows six fields, Redis 7 about 150.
type Info map[string]string

// ParseInfo reads the answer to INFO: lines of field:value in sections. Lines
// of any other form are skipped; of a field that comes twice the last counts.
func ParseInfo(text string) Info {
	info := make(Info)
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if field, value, ok := strings.Cut(line, ":"); ok && field != "" {
			info[field] = value
		}
	}
	return info
}

// Number returns the number in a field, unknown when the server does not tell.
func (i Info) Number(field string) probes.Number {
	value, ok := i[field]
	if !ok {
		return probes.Unknown("the server's INFO does not tell it")
	}
	return probes.ParseNumber(value).Named("INFO " + field)
}
