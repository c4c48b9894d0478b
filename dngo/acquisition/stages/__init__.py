"""The stages of a batch, one file each: `dngo.acquisition.state.Stage` says what one must do."""
