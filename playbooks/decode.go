package playbooks

import "reflect"

// DecodeStrict fills the struct behind into from a YAML file with the
// strictness of playbooks: a *[LoadError] has every unknown field, wrong type
// and field given twice, with its place. It is for files that may hold secrets:
// no fault quotes a value, provided that the yaml.Unmarshalers in it do not.
// name is used in messages only.
func DecodeStrict(name string, data []byte, into any) error {
	d := &document{sheet: sheet{file: name}, what: "a configuration", discreet: true}
	if root := d.parse(data); root != nil {
		d.decode(root, reflect.ValueOf(into).Elem(), "")
	}
	if len(d.faults) > 0 {
		byPlace(d.faults, nil)
		return &LoadError{Faults: d.faults}
	}
	return nil
}
