package name

// lookAlike is the plain letter or digit that r looks like, or 0. The pairs are
// those of Unicode's confusables.txt (UTS #39, Unicode Security Mechanisms)
// whose target is one ASCII letter or digit and whose source is a lower-case
// letter that NFKC leaves alone: in the Latin script, which is always of
// interest, and in Cyrillic, Greek and Armenian, for policies that allow them.
// Left out are ASCII characters that look like each other (1 and l, 0 and o),
// for no name could be told without them, and ligatures such as æ, which no
// reader of their alphabets takes for two letters.
func lookAlike(r rune) rune {
	switch r {
	case 'ɑ', 'а', 'α':
		return 'a'
	case 'ƅ', 'ь':
		return 'b'
	case 'ᴄ', 'с', 'ϲ':
		return 'c'
	case 'ԁ':
		return 'd'
	case 'ꬲ', 'е', 'ҽ':
		return 'e'
	case 'ꞙ', 'ꬵ', 'ẝ', 'ք':
		return 'f'
	case 'ɡ', 'ᶃ', 'ƍ', 'ց':
		return 'g'
	case 'һ', 'հ':
		return 'h'
	case 'ı', 'ɩ', 'ɪ', 'і', 'ӏ', 'ꙇ', 'ι':
		return 'i'
	case 'ј', 'ϳ':
		return 'j'
	case 'ǀ':
		return 'l'
	case 'ո', 'ռ':
		return 'n'
	case 'ᴏ', 'ᴑ', 'ꬽ', 'о', 'ο', 'σ', 'օ':
		return 'o'
	case 'р', 'ρ':
		return 'p'
	case 'ԛ', 'գ', 'զ':
		return 'q'
	case 'ꭇ', 'ꭈ', 'г':
		return 'r'
	case 'ꜱ', 'ƽ', 'ѕ':
		return 's'
	case 'ʋ', 'ᴜ', 'ꭎ', 'ꭒ', 'υ', 'ս':
		return 'u'
	case 'ᴠ', 'ѵ', 'ν':
		return 'v'
	case 'ɯ', 'ᴡ', 'ѡ', 'ԝ', 'ա':
		return 'w'
	case 'х':
		return 'x'
	case 'ɣ', 'ʏ', 'ᶌ', 'ỿ', 'ꭚ', 'у', 'ү', 'γ':
		return 'y'
	case 'ᴢ':
		return 'z'
	case 'б':
		return '6'
	case 'ȣ':
		return '8'
	}
	return 0
}

// mistakable returns the plain name that s would be taken for, and the first
// character that gives it away. It is "" unless every character of s is plain
// or looks like a plain one: in a name that also holds other letters the eye
// has been warned.
func mistakable(s string) (plain string, position int, odd rune) {
	out := make([]rune, 0, len(s))
	for _, r := range s {
		twin := r
		if r >= 0x80 {
			if twin = lookAlike(r); twin == 0 {
				return "", 0, 0
			}
			if odd == 0 {
				position, odd = len(out)+1, r
			}
		}
		out = append(out, twin)
	}
	if odd == 0 {
		return "", 0, 0
	}
	return string(out), position, odd
}
