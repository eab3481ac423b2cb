package shell

import "github.com/spf13/cobra"

// AddHelp gives a root with all its commands those that cobra adds, help and completion;
// what they do not know they refuse as root.Args does, where cobra's print help and fail
// at nothing.
func AddHelp(root *cobra.Command) {
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		RunE: func(_ *cobra.Command, args []string) error {
			topic, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			if topic == root {
				if err := root.Args(topic, rest); err != nil {
					return err
				}
			}
			return topic.Help()
		},
	})
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args = root.Args
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}
