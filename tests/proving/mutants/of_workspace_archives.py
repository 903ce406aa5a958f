"""Faults in what writes a workspace's archive, reads it back, and says what lies in the bucket."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

UPLOADING: Final = "ops/workspaces/archive_store/uploading.py"
STORE: Final = "ops/workspaces/archive_store/store.py"
FRAMES: Final = "ops/workspaces/archive_store/frames.py"
TAR: Final = "ops/workspaces/archive_store/tar_walk.py"
PARTS: Final = "ops/workspaces/archive_store/parts.py"
VOLUMES: Final = "ops/workspaces/drivers/process/volumes.py"
NAMING: Final = "ops/workspaces/naming.py"
PROVISIONING: Final = "dpp_project/aws/provisioning.py"

store = In("integration/workspaces/test_archive_store")
faults = In("integration/workspaces/test_archive_faults")
export = In("integration/workspaces/test_driver_export")
reading = In("unit/test_archive_reading")
naming = In("unit/test_workspace_naming")
provision = In("integration/platform/test_provision")

MUTANTS: Final = (
    Mutant(
        "an archive is completed before tar has said whether it is whole",
        UPLOADING,
        "    with export as tar:\n",
        "    tar = export.__enter__()\n    with contextlib.nullcontext():\n",
        store("test_a_tar_that_ends_well_formed_and_is_not_whole_is_never_completed"),
    ),
    Mutant(
        "an archive overwrites what lies at its key",
        UPLOADING,
        '                    IfNoneMatch="*",\n',
        "",
        store(
            "test_of_two_uploads_at_once_the_first_to_complete_stays",
            "test_another_operations_object_is_neither_overwritten_nor_believed",
        ),
    ),
    Mutant(
        "an object of another operation is taken for ours",
        UPLOADING,
        "        if found.identity != self._identity:\n",
        "        if found.identity is None:\n",
        store("test_another_operations_object_is_neither_overwritten_nor_believed"),
    ),
    Mutant(
        "an earlier attempt's object is taken for what was sent",
        UPLOADING,
        "        if found.upload != self._nonce:\n",
        "        if found.upload is None:\n",
        store("test_of_two_uploads_at_once_the_first_to_complete_stays"),
    ),
    Mutant(
        "a completion whose answer is lost is not looked up",
        UPLOADING,
        "            if (found := self._look(self._key)) is not None:\n",
        "            if (found := None) is not None:\n",
        faults("test_an_answer_that_is_lost_is_asked_for_again_or_looked_up"),
    ),
    Mutant(
        "an answer without an ETag is taken for a completion",
        UPLOADING,
        '                if answer.get("ETag"):\n                    return True\n',
        "                return True\n",
        faults("test_a_completion_that_answers_200_and_did_nothing_is_not_believed"),
    ),
    Mutant(
        "a failed upload is left open",
        UPLOADING,
        "            self._abort(upload_id)\n            raise\n",
        "            raise\n",
        store("test_a_caller_that_gives_up_leaves_nothing"),
    ),
    Mutant(
        "an upload that came second is left open",
        UPLOADING,
        "        self._abort(upload_id)\n        return None\n",
        "        return None\n",
        store("test_a_second_upload_of_the_same_operation_finds_the_first"),
    ),
    Mutant(
        "an upload is aborted while its parts are on their way",
        PARTS,
        "        self._pool.shutdown(wait=True, cancel_futures=True)\n",
        "        self._pool.shutdown(wait=False)\n",
        faults("test_an_upload_that_fails_waits_for_the_parts_on_their_way"),
    ),
    Mutant(
        "an archive has no limit",
        PARTS,
        "        if self.bytes > self._bytes_max:\n",
        "        if self.bytes < 0:\n",
        store("test_an_archive_beyond_the_limit_is_refused_and_leaves_nothing"),
    ),
    Mutant(
        "in a bucket that is not there every archive is absent",
        STORE,
        "                self._client.head_bucket(Bucket=self.bucket)\n                return None\n",
        "                return None\n",
        faults("test_a_bucket_that_is_not_there_makes_nothing_absent"),
    ),
    Mutant(
        "a look that S3 refuses is an absence",
        STORE,
        "                if s3_status(error) != 404:\n                    raise\n"
        "                self._client.head_bucket(Bucket=self.bucket)\n                return None\n",
        "                if s3_status(error) not in (403, 404):\n                    raise\n"
        "                self._client.head_bucket(Bucket=self.bucket)\n                return None\n",
        faults("test_a_look_that_is_refused_is_no_absence"),
    ),
    Mutant(
        "what is read back is not compared with what was sent",
        STORE,
        "        if sent is not None and found != sent:\n",
        "        if sent is None and found != sent:\n",
        store("test_another_whole_archive_in_its_place_is_refused"),
    ),
    Mutant(
        "a restore does not compare what it read",
        STORE,
        "            if (raw.sha256, tar_bytes) != (verified.sha256, verified.tar_bytes):\n",
        "            if tar_bytes != verified.tar_bytes:\n",
        store("test_another_whole_archive_in_its_place_is_refused"),
    ),
    Mutant(
        "a volume is full where tar stops",
        VOLUMES,
        "            for _ in tar:  # past the mark where tar stops: only the end of it says that all of it was right\n"
        "                pass\n",
        "",
        In("integration/workspaces/test_driver_contract")("test_what_fills_a_volume_is_read_to_its_end"),
    ),
    Mutant(
        "a frame that is cut is whole",
        FRAMES,
        "    if not frame.eof:\n",
        "    if frame.needs_input and False:\n",
        reading("test_a_frame_that_is_cut_changed_or_lengthened_is_refused"),
    ),
    Mutant(
        "what follows a frame in its last bytes is not seen",
        FRAMES,
        "        if frame.unused_data:\n",
        "        if frame.unused_data is None:\n",
        reading("test_a_frame_that_is_cut_changed_or_lengthened_is_refused"),
    ),
    Mutant(
        "a tar ends at its first block of zeros",
        TAR,
        "    if is_announced or stream.block() != _ZEROS:\n",
        "    if is_announced:\n",
        reading("test_a_tar_is_refused_wherever_it_is_cut"),
    ),
    Mutant(
        "what follows the end of a tar is not looked at",
        TAR,
        "            if rest.count(0) != len(rest):\n",
        "            if rest.count(0) < 0:\n",
        reading("test_a_tar_that_is_none_is_refused"),
    ),
    Mutant(
        "a member beyond 8 GiB has the size of its plain header",
        TAR,
        "_content_bytes(kind, size if size_said is None else size_said)",
        "_content_bytes(kind, size)",
        reading("test_a_member_of_nine_gibibytes_is_skipped_whole"),
    ),
    Mutant(
        "a sparse file's longer map is taken for its content",
        TAR,
        "            if kind == _SPARSE:\n",
        "            if kind == 0:\n",
        reading("test_every_member_is_counted_in_each_format"),
    ),
    Mutant(
        "a name with a line behind it is ours",
        NAMING,
        "    found = _CONTAINER.fullmatch(name)\n",
        "    found = _CONTAINER.match(name)\n",
        naming("test_a_name_that_is_not_ours_says_nothing"),
    ),
    Mutant(
        "archives expire with the results",
        PROVISIONING,
        "env.DPP_ARCHIVE_BUCKET, env.AWS_REGION, [ABORTING]",
        "env.DPP_ARCHIVE_BUCKET, env.AWS_REGION, [*_expiring(), ABORTING]",
        provision("test_wsp_07_archives_have_a_bucket_of_their_own_that_expires_nothing"),
    ),
    Mutant(
        "a home is archived that no restore could make",
        TAR,
        "    if length > PATH_BYTES_MAX:\n",
        "    if False:\n",
        export("test_a_path_that_no_restore_could_make_is_told_while_its_home_is_there[process]"),
    ),
)
