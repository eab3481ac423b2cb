package playbooks

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// decode fills v, a settable value, from n. Keys that v does not know, keys
// given twice, and values of the wrong type are faults; the rest is still read.
func (d *document) decode(n *yaml.Node, v reflect.Value, path string) {
	if d.places != nil {
		d.places[path] = n
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.refuse(n, path, "anchors and aliases are not supported", "the value written out")
		return
	}
	switch target := v.Addr().Interface().(type) {
	case *text:
		if d.is(n, yaml.ScalarNode, path, "text") {
			*target = text{Value: n.Value, node: n}
		}
		return
	case **yaml.Node:
		*target = n
		return
	case *time.Time, *time.Duration, yaml.Unmarshaler, encoding.TextUnmarshaler,
		interface{ UnmarshalYAML(func(any) error) error }:
		d.leaf(n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.object(n, v, path)
	case reflect.Slice:
		if !d.is(n, yaml.SequenceNode, path, "a list") {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, item := range n.Content {
			d.decode(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Map:
		d.table(n, v, path)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, v.Elem(), path)
	default:
		d.leaf(n, v, path)
	}
}

// object fills a struct from a mapping.
func (d *document) object(n *yaml.Node, v reflect.Value, path string) {
	if !d.is(n, yaml.MappingNode, path, "a mapping") {
		return
	}
	fields := map[string]reflect.Value{}
	names := fieldsOf(v, fields)
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		field, known := fields[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || !known:
			expected := "one of " + strings.Join(names, ", ")
			if len(names) == 0 {
				expected = "no fields here"
			}
			d.addWord(key, path, fmt.Sprintf("unknown field %q", key.Value), expected, names)
			d.unread = append(d.unread, join(path, cmp.Or(d.faults[len(d.faults)-1].Suggestion, key.Value)))
		case seen[key.Value]:
			d.add(key, path, fmt.Sprintf("field %q is given twice", key.Value), "")
		default:
			seen[key.Value] = true
			d.decode(value, field, join(path, key.Value))
		}
	}
}

// table fills a map from a mapping.
func (d *document) table(n *yaml.Node, v reflect.Value, path string) {
	if v.Type().Key().Kind() != reflect.String {
		d.leaf(n, v, path)
		return
	}
	if !d.is(n, yaml.MappingNode, path, "a mapping") {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := reflect.ValueOf(n.Content[i].Value).Convert(v.Type().Key())
		if v.MapIndex(key).IsValid() {
			d.add(n.Content[i], path, fmt.Sprintf("field %q is given twice", n.Content[i].Value), "")
			continue
		}
		value := reflect.New(v.Type().Elem()).Elem()
		d.decode(n.Content[i+1], value, join(path, n.Content[i].Value))
		v.SetMapIndex(key, value)
	}
}

// fieldsOf gathers the settable fields of a struct by their YAML names, and
// the names in order.
func fieldsOf(v reflect.Value, fields map[string]reflect.Value) (names []string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case f.Type.Kind() == reflect.Struct && slices.Contains(strings.Split(options, ","), "inline"):
			names = append(names, fieldsOf(v.Field(i), fields)...)
		default:
			if name == "" {
				name = strings.ToLower(f.Name)
			}
			fields[name] = v.Field(i)
			names = append(names, name)
		}
	}
	return names
}

// leaf lets yaml.v3 convert a value.
func (d *document) leaf(n *yaml.Node, v reflect.Value, path string) {
	err := n.Decode(v.Addr().Interface())
	var mismatch *yaml.TypeError
	_, speaks := reflect.TypeAssert[yaml.Unmarshaler](v.Addr())
	switch {
	case err == nil:
	case errors.As(err, &mismatch):
		d.refuse(n, path, "wrong type: "+d.describe(n), kindName(v))
	case d.discreet && !speaks: // a parser's message may quote the value
		d.refuse(n, path, "bad value", kindName(v))
	default:
		d.refuse(n, path, strings.TrimPrefix(err.Error(), "yaml: "), kindName(v))
	}
}

func kindName(v reflect.Value) string {
	switch v.Interface().(type) {
	case time.Duration:
		return "a duration such as 500ms or 10s"
	case time.Time:
		return "a time as RFC 3339"
	}
	switch v.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.String:
		return "text"
	default:
		return ""
	}
}

// is notes a fault unless n is of the kind.
func (d *document) is(n *yaml.Node, kind yaml.Kind, path, expected string) bool {
	if n.Kind == kind && (kind != yaml.ScalarNode || n.Tag != "!!null") {
		return true
	}
	is := d.describe(n)
	if path == "" && n.Kind == yaml.ScalarNode {
		is = scalarName(n) // the whole of a file that is none of ours
	}
	d.refuse(n, path, "wrong type: "+is, expected)
	return false
}

// maxQuoted is how many bytes of a value a fault quotes: who gives a wrong file is not
// to have all of it, and whatever is in it, in the log of a build.
const maxQuoted = 40

// describe says what a node is, quoting its value unless that is long or may be secret.
func (d *document) describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "nothing"
	case d.discreet, len(n.Value) > maxQuoted:
		return scalarName(n)
	}
	return fmt.Sprintf("%q", n.Value)
}

// scalarName says of what type a value is, without it.
func scalarName(n *yaml.Node) string {
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!timestamp":
		return "a date"
	}
	return "text"
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}
