package playbooks

import _ "embed"

//go:embed report.schema.json
var reportSchema string

// ReportSchema returns the JSON Schema (2020-12) of a [Report].
func ReportSchema() []byte { return []byte(reportSchema) }
