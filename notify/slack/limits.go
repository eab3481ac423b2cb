package slack

// Limits of Slack, in characters unless said otherwise. Slack does not say what
// a character is; we count UTF-16 code units of the escaped text, which no other
// reading exceeds. Sources: docs.slack.dev reference (blocks, chat.update) and
// the checks in Slack's own SDKs.
const (
	// maxText is what chat.update takes as text (msg_too_long beyond it);
	// chat.postMessage would take ten times as much, but splits around 4,000.
	maxText = 4000
	// maxHeader is for a header block, which is always plain_text.
	maxHeader = 150
	// maxValue is for the value of a button.
	maxValue = 2000
	// maxURL is for a link that is worth showing; Slack's own limit is 3,000 for
	// the whole text object around it.
	maxURL = 2000
)

// Budgets of ours. Slack refuses a message whose blocks hold too much text
// together (msg_blocks_too_long); the limit is not documented, 9,597 characters
// passed and 11,341 did not (slackapi/bolt-js#2509). The budgets of the parts of
// a message add up to less than budgetBlocks.
const (
	budgetBlocks  = 9000
	budgetSummary = 900
	budgetContext = 500
	// budgetInstead is for the note that a message was meant for elsewhere.
	budgetInstead = 320
	// budgetRecovery is for the second look.
	budgetRecovery = 600
	// budgetPart is for one section of the report; there are at most six.
	budgetPart = 890
	// budgetPage is for one message of details, which is text without blocks.
	budgetPage = 3900
	// maxPages bounds the details of one report: beyond it the last page says
	// how many lines are left out.
	maxPages = 8
	// noteRoom is kept free on the last page for that.
	noteRoom = 80
)
