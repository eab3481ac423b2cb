package source

import (
	"strings"

	"github.com/regpath/diagnose/probes"
)

// Info is what a Redis server says about itself in answer to INFO. Servers
// differ in what they tell: miniredis knows six fields, Redis 7 about 150.
type Info map[string]string

// NotInInfo says why a number that INFO may have is absent.
const NotInInfo = "this server does not offer it: its INFO does not tell it"

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
		return probes.Absent(NotInInfo)
	}
	return probes.ParseNumber(value).Named("INFO " + field)
}

// Counts returns one number out of every field of a section such as
// commandstats, by the rest of the field's name: with prefix "cmdstat_" and key
// "usec", the field cmdstat_get:calls=7,usec=21 gives 21 for get. Numbers that
// cannot be read are left out.
func (i Info) Counts(prefix, key string) map[string]float64 {
	out := map[string]float64{}
	for field, value := range i {
		name, ok := strings.CutPrefix(field, prefix)
		if !ok {
			continue
		}
		if n, known := within(value, key).Get(); known {
			out[name] = n
		}
	}
	return out
}

// ErrorReplies returns how often the server has answered with an error of this
// prefix, unknown when it does not count them (Redis before 6.2).
func (i Info) ErrorReplies(prefix string) probes.Number {
	if _, counts := i["total_error_replies"]; !counts {
		return i.Number("total_error_replies")
	}
	if value, ok := i["errorstat_"+prefix]; ok {
		return within(value, "count").Named("INFO errorstat_" + prefix)
	}
	return probes.Known(0)
}

// within returns the number of a key in key=number,key=number.
func within(value, key string) probes.Number {
	for pair := range strings.SplitSeq(value, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok && k == key {
			return probes.ParseNumber(v)
		}
	}
	return probes.Number{}
}
