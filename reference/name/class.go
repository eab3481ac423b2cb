package name

import "unicode/utf8"

// Class sorts canonical names by what they are made of.
type Class string

// The classes. A name belongs to the last one that applies: what a writer gets
// wrong about one of them shows in that one and in none before it.
const (
	Letters     Class = "letters"       // a to z alone
	Digits      Class = "digits"        // a digit among them
	Punctuation Class = "punctuation"   // a mark among them
	Unicode     Class = "other scripts" // a letter outside ASCII among them
)

// ClassOf returns the class of a canonical name.
func ClassOf(n string) Class {
	class := Letters
	for i := range len(n) {
		switch c := n[i]; {
		case c >= utf8.RuneSelf:
			return Unicode
		case 'a' <= c && c <= 'z':
		case '0' <= c && c <= '9':
			if class == Letters {
				class = Digits
			}
		default:
			class = Punctuation
		}
	}
	return class
}
