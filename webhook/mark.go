package webhook

// Memo is what is remembered about an incident, for those who are neither its
// Worker nor a Courier: keys of theirs must not be written to. Its Attempt is 0.
func (in *Inbox) Memo(incident string) Memo { return &memo{inbox: in, incident: incident} }
