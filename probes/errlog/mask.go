package errlog

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What stands in the place of a value. They are left alone by mask, so that
// masking twice is masking once.
const (
	anyMask  = "<*>"
	numMask  = "<num>"
	hexMask  = "<hex>"
	uuidMask = "<uuid>"
	addrMask = "<addr>"
	durMask  = "<dur>"
	strMask  = "<str>"
	mailMask = "<mail>"
	urlMask  = "<url>"
	pathMask = "<path>"
)

var masks = []string{anyMask, numMask, hexMask, uuidMask, addrMask, durMask, strMask, mailMask, urlMask, pathMask, "<nil>"}

// The shapes of single words.
var (
	uuidShape = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	ipShape   = regexp.MustCompile(`^[0-9]{1,3}(\.[0-9]{1,3}){3}(:[0-9]{1,5}|/[0-9]{1,2})?$`)
	addrShape = regexp.MustCompile(`^[A-Za-z0-9.-]*:[0-9]{1,5}$|^[0-9a-fA-F:]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.%a-z]*$`)
	hexShape  = regexp.MustCompile(`^(0[xX][0-9a-fA-F]+|[0-9a-fA-F]{8,})$`)
	durShape  = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h|d))+$`)
	numShape  = regexp.MustCompile(`^[#+-]?[0-9]+([.,_/:x-][0-9]+)*([kKMGT]?i?B|%)?$`)
	wordShape = regexp.MustCompile(`^[A-Za-z]+([_-][A-Za-z]+)*$`)
	tailShape = regexp.MustCompile(`^[A-Za-z]+'(t|s|re|ve|ll|d|m)$`)
	stateForm = regexp.MustCompile(`^[0-9A-Z]{5}$`)
	classForm = regexp.MustCompile(`^[0-9][0-9A-Z][0-9A-Z]{3}$`)
)

// maxWord is the longest word that is kept: what is longer is a token, a key
// or a name, not a word of a message.
const maxWord = 24

// mask replaces everything in an error message that differs from one instance
// of the error to the next, or that belongs to a person or is a secret:
// numbers, hex, ids, addresses, durations, mail, URLs, paths, quoted text,
// values after "=", what follows words such as user or password, and words
// that are none (digits within, not ASCII, very long). It keeps what tells one
// error from another: SQLSTATE, HTTP status, errno names, Redis prefixes.
func mask(message string) string {
	m := masker{in: strings.ToValidUTF8(message, "\uFFFD")}
	for m.in != "" {
		m.next()
	}
	return strings.TrimRight(m.out.String(), " ")
}

type masker struct {
	in  string
	out strings.Builder
	// prev is the last word, in lower case, if it was kept; sep is what came
	// after it.
	prev, sep string
	// glued tells that the last thing written was a letter or a digit.
	glued bool
}

// next consumes at least one byte of the input.
func (m *masker) next() {
	r, size := utf8.DecodeRuneInString(m.in)
	switch {
	case unicode.IsSpace(r) || unicode.IsControl(r):
		m.in = m.in[size:]
		if s := m.out.String(); s != "" && !strings.HasSuffix(s, " ") {
			m.punct(" ")
		}
	case r == '<' && m.placeholder():
	case strings.HasPrefix(m.in, "::") && !m.glued:
		m.word() // an IPv6 address
	case r == '"' || r == '`' || r == '“' || r == '«' || r == '\'' && !m.glued:
		m.quoted(r, size)
	case strings.ContainsRune("([{", r) && strings.HasSuffix(m.sep, "="):
		m.bracketed(r)
	case strings.ContainsRune("()[]{}<>,;|=:.!?", r):
		m.in = m.in[size:]
		m.punct(string(r))
	default:
		m.word()
	}
}

func (m *masker) punct(s string) {
	m.out.WriteString(s)
	m.sep += s
	m.glued = false
}

// put writes a masked value, after which no context is left.
func (m *masker) put(s string) {
	m.out.WriteString(s)
	m.prev, m.sep, m.glued = "", "", false
}

func (m *masker) placeholder() bool {
	for _, p := range masks {
		if strings.HasPrefix(m.in, p) {
			m.in = m.in[len(p):]
			m.put(p)
			return true
		}
	}
	return false
}

// quoted skips to the closing quote, or to the end where the message was cut.
func (m *masker) quoted(open rune, size int) {
	closing := open
	switch open {
	case '“':
		closing = '”'
	case '«':
		closing = '»'
	}
	rest := m.in[size:]
	m.in = ""
	for i, r := range rest {
		if r == closing && !escaped(rest[:i]) {
			m.in = rest[i+utf8.RuneLen(r):]
			break
		}
	}
	m.put(strMask)
}

func escaped(before string) bool {
	n := len(before) - len(strings.TrimRight(before, `\`))
	return n%2 == 1
}

// bracketed skips a value in brackets after "=": "Key (name)=(love)".
func (m *masker) bracketed(open rune) {
	closing := map[rune]string{'(': ")", '[': "]", '{': "}"}[open]
	_, rest, _ := strings.Cut(m.in, closing)
	m.in = rest
	m.put(anyMask)
}

// word consumes one word and writes it or what stands for it.
func (m *masker) word() {
	end := strings.IndexFunc(m.in, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("\"`“«()[]{}<>,;|=", r)
	})
	if end < 0 {
		end = len(m.in)
	}
	if strings.Contains(m.in[:end], "://") {
		// A password in a URL may hold any of the characters that end a word.
		if end = strings.IndexFunc(m.in, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }); end < 0 {
			end = len(m.in)
		}
	}
	w := strings.TrimRight(m.in[:end], ".:!?")
	if strings.HasPrefix(m.in[end:], ">") {
		w = strings.TrimSuffix(w, "-") // an arrow
	}
	if w == "" {
		w = m.in[:end]
	}
	m.in = m.in[len(w):]
	if to := m.masked(w); to != "" {
		m.put(to)
		return
	}
	m.out.WriteString(w)
	last, _ := utf8.DecodeLastRuneInString(w)
	m.glued = unicode.IsLetter(last) || unicode.IsDigit(last)
	if m.carries(w) {
		return
	}
	m.prev, m.sep = strings.ToLower(w), ""
}

// carries reports whether w leaves the context of the word before it standing:
// "password is …".
func (m *masker) carries(w string) bool {
	return sensitive[m.prev] && (w == "is" || w == "was" || w == "to")
}

// masked returns what stands for a word, empty when the word is kept.
func (m *masker) masked(w string) string {
	low := strings.ToLower(w)
	switch {
	case strings.Contains(w, "://"):
		return urlMask
	case !ascii(w):
		return anyMask
	case strings.Contains(w, "@"):
		return mailMask
	case m.code(w):
		return ""
	case m.private(low):
		return anyMask
	case kept[low], len(w) <= maxWord && wordShape.MatchString(w):
		return ""
	case strings.Contains(w, "/"):
		if numShape.MatchString(w) {
			return numMask
		}
		return pathMask
	}
	for _, s := range []struct {
		shape *regexp.Regexp
		mask  string
	}{{uuidShape, uuidMask}, {durShape, durMask}, {ipShape, addrMask}, {numShape, numMask}, {addrShape, addrMask}} {
		if s.shape.MatchString(w) {
			return s.mask
		}
	}
	switch {
	case hexShape.MatchString(w) && strings.ContainsAny(w, "0123456789"):
		return hexMask
	case len(w) <= maxWord && tailShape.MatchString(w):
		return ""
	case len(w) <= 3 && !strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '\'' }):
		return "" // "-", "->", "&"
	}
	return anyMask
}

// code reports whether w is a code that tells errors apart.
func (m *masker) code(w string) bool {
	if len(w) == 3 {
		status, err := strconv.Atoi(w)
		if text := http.StatusText(status); err == nil && text != "" {
			return statusWords[m.prev] || strings.HasPrefix(m.in, " "+text)
		}
	}
	return m.prev == "sqlstate" && stateForm.MatchString(w) ||
		(m.prev == "code" || m.prev == "state") && classForm.MatchString(w)
}

// private reports whether the context says that w is a value, a person or a
// secret.
func (m *masker) private(low string) bool {
	separated := strings.ContainsAny(m.sep, ":=")
	switch {
	case schemes[low] && sensitive[m.prev]:
		return false // "Authorization: Bearer …": the next word is the secret
	case strings.HasSuffix(strings.TrimRight(m.sep, " "), "="):
		return !plainKeys[m.prev] || len(low) > maxWord || !wordShape.MatchString(low)
	case strings.Trim(m.sep, " :") != "":
		return false
	case sensitive[m.prev]:
		return separated || !glue[low]
	case m.prev == "for" || m.prev == "of":
		return !separated && !glue[low] && !nouns[low] && !sensitive[low]
	}
	return false
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// clip cuts s to at most n runes.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string(slices.Collect(func(yield func(rune) bool) {
		i := 0
		for _, r := range s {
			if i++; i >= n || !yield(r) {
				return
			}
		}
	})) + "…"
}
